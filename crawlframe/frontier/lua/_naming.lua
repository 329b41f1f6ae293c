-- Names, made and read here alone; in Python: crawlframe/proxies/place.py.
-- A host is "<host>". A place, "<host>|<route>", is a host whose requests go through proxies; a pair, "<host>|<id>", a
-- host and a proxy of the pool; an entry "@<address>" of HOSTS stands for the hosts at an IP address. The hold of a
-- request has the number of its claim, and ends with "~<id>" if it goes through a proxy of the pool.
local naming = {}

function naming.host_in(place) return string.match(place, '^([^|]*)') end

function naming.is_host(place) return not string.find(place, '|', 1, true) end

-- The pool's part of a route: choice, whether limits hold for each proxy, and the session; nil for others.
function naming.pool_route(place)
  local all, choice, session = string.match(place, '|(a?l?l?;?)(pool[^#]*)#?(.*)$')
  if choice then return choice, all == '', session end
end

function naming.pair(place, proxy) return naming.host_in(place) .. '|' .. proxy end

-- The host and the proxy of a pair; nil for others.
function naming.split_pair(name) return string.match(name, '^([^|]*)|(%d+)$') end

function naming.entry_of(address) return '@' .. address end

function naming.address_in(entry)
  if string.byte(entry) == 64 then return string.sub(entry, 2) end
end

function naming.hold_through(hold, proxy) return hold .. '~' .. proxy end

function naming.hold_after(claim) return '+' .. claim end

function naming.has_slot(hold) return string.byte(hold) ~= 43 end

function naming.claim_in(hold) return tonumber(string.match(hold, '%d+')) end

-- The proxy in a hold, and the rest of it.
function naming.split_hold(hold)
  local rest, proxy = string.match(hold, '^([^~]*)~(%d+)$')
  return proxy, rest or hold
end

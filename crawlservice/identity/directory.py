"""The directory of our keys, at a well-known address, for sites that verify our signatures
(draft-ietf-webbotauth-httpsig-protocol-01)."""

from __future__ import annotations

import hashlib
import json

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from crawlframe.identity.signing import authority_of, check_origin, sign_directory
from crawlservice.connections import clock
from crawlservice.identity import bot_keys

MEDIA_TYPE = "application/http-message-signatures-directory+json"


@require_safe
def directory(request: HttpRequest) -> HttpResponse:
    """All published keys as a JWK set, signed by each of them. It needs no login."""
    rows = bot_keys.published()
    if not rows:
        return HttpResponse("there are no keys\n", "text/plain", 404)
    keys = [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": row.name,
            "x": row.public,
            "use": "sig",
            "nbf": int(row.created_at.timestamp()),
        }
        for row in rows
    ]
    body = json.dumps({"keys": keys}, separators=(",", ":")).encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        answer: HttpResponse = HttpResponseNotModified()
    else:
        # A proxy in front may change the Host header; the verifier asked for the public one.
        origin = check_origin(settings.CRAWLFRAME.bot_auth) or f"https://{request.get_host()}"
        authority = authority_of(f"{origin}/", [])
        proof = sign_directory(
            map(bot_keys.signing_key, rows), authority, body, int(clock.now().timestamp())
        )
        answer = HttpResponse(body, MEDIA_TYPE, headers=proof)
    answer["ETag"] = etag
    answer["Cache-Control"] = f"public, max-age={int(bot_keys.CACHE_AGE.total_seconds())}"
    answer["Access-Control-Allow-Origin"] = "*"
    return answer

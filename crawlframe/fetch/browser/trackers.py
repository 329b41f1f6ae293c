"""Trackers: hosts that pages load for advertising and statistics, and that no crawl needs; and
hosts that the browser asks on its own account."""

from __future__ import annotations

DOMAINS = frozenset(
    [
        "2mdn.net",
        "3lift.com",
        "adform.net",
        "adnxs.com",
        "adobedtm.com",
        "adroll.com",
        "adsafeprotected.com",
        "adsrvr.org",
        "adtrafficquality.google",
        "amazon-adsystem.com",
        "amplitude.com",
        "appnexus.com",
        "bat.bing.com",
        "bidswitch.net",
        "bluekai.com",
        "casalemedia.com",
        "chartbeat.com",
        "chartbeat.net",
        "clarity.ms",
        "cloudflareinsights.com",
        "contentsquare.net",
        "crazyegg.com",
        "criteo.com",
        "criteo.net",
        "demdex.net",
        "doubleclick.net",
        "doubleverify.com",
        "everesttech.net",
        "facebook.net",
        "fullstory.com",
        "google-analytics.com",
        "googleadservices.com",
        "googlesyndication.com",
        "googletagmanager.com",
        "googletagservices.com",
        "heapanalytics.com",
        "hotjar.com",
        "hotjar.io",
        "imrworldwide.com",
        "indexww.com",
        "krxd.net",
        "matomo.cloud",
        "mc.yandex.ru",
        "media.net",
        "mixpanel.com",
        "moatads.com",
        "mouseflow.com",
        "mxpnl.com",
        "nr-data.net",
        "omtrdc.net",
        "openx.net",
        "optimizely.com",
        "outbrain.com",
        "pixel.wp.com",
        "plausible.io",
        "posthog.com",
        "pubmatic.com",
        "quantserve.com",
        "rlcdn.com",
        "rubiconproject.com",
        "scorecardresearch.com",
        "segment.com",
        "segment.io",
        "sentry-cdn.com",
        "smartadserver.com",
        "snap.licdn.com",
        "stats.wp.com",
        "taboola.com",
        "tiqcdn.com",
        "turn.com",
        "yieldmo.com",
        "zemanta.com",
    ]
)

# Asked by Chromium when it starts, and when a form is filled in: also through proxies that cost.
OF_THE_BROWSER = frozenset(
    [
        "clients2.google.com",
        "clients4.google.com",
        "content-autofill.googleapis.com",
        "edgedl.me.gvt1.com",
        "optimizationguide-pa.googleapis.com",
        "safebrowsing.googleapis.com",
        "update.googleapis.com",
    ]
)


def is_tracker(host: str) -> bool:
    """Whether a host is one of them, or below one."""
    while host:
        if host in DOMAINS:
            return True
        host = host.partition(".")[2]
    return False

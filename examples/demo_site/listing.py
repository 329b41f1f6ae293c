"""Listing: one house or flat of the demo site, computed from its number."""

from __future__ import annotations

from typing import Any, NamedTuple

from examples.demo_site.draw import Draw

FIRST_ID = 10001

KINDS = (
    "Apartment", "Loft", "Maisonette", "Terraced house", "Attic flat", "Garden flat", "Town house",
    "Penthouse", "Studio", "Family home", "Villa floor", "Old-building flat",
)  # fmt: skip
CHARMS = (
    "Bright", "Quiet", "Spacious", "Charming", "Renovated", "Sunny", "Elegant", "Compact",
    "Family-friendly", "Stylish", "Well-kept", "Airy", "Rare", "Character-rich",
)  # fmt: skip
EXTRAS = (
    "with south-facing balcony", "near the park", "with fitted kitchen", "in a listed building",
    "with roof terrace", "by the canal", "with two bathrooms", "next to the market hall",
    "with underground parking", "in a green courtyard", "with high ceilings", "by the old brewery",
    "with open fireplace", "above the rooftops", "with own garden & shed", "close to the S-Bahn",
)  # fmt: skip
STREETS = (
    "Schönhauser Allee", "Kastanienallee", "Bergmannstraße", "Weserstraße", "Müllerstraße",
    "Sonnenallee", "Kantstraße", "Bölschestraße", "Florastraße", "Gärtnerstraße", "Karl-Marx-Allee",
    "Oranienstraße", "Wühlischstraße", "Pücklerstraße",
    "Grünberger Straße", "Große Hamburger Straße",
    "Falckensteinstraße", "Hufelandstraße", "Königstraße", "Rosenthaler Straße", "Potsdamer Straße",
    "Lindenufer", "Am Tierpark", "Spreetalallee", "Uhlandstraße", "Böckhstraße", "Seestraße",
    "Schloßstraße", "Altstädter Ring", "Breite Straße", "Zossener Straße", "Görlitzer Ufer",
)  # fmt: skip
FEATURES = (
    "balcony", "lift", "fitted kitchen",
    "cellar", "bicycle room", "parquet floor", "stucco ceiling",
    "floor heating", "garden", "garage", "guest toilet", "barrier-free", "fibre internet",
    "solar panels", "roof terrace", "storage room", "tiled stove", "winter garden", "dishwasher",
    "triple glazing", "underground parking", "video intercom",
)  # fmt: skip
FIRST_NAMES = (
    "Anna", "Björn", "Clara", "Deniz", "Eva", "Farid", "Gisela", "Hüseyin", "Ines", "Jürgen",
    "Katharina", "Lukas", "Małgorzata", "Noor", "Özlem", "Paul", "Renée", "Sören", "Thao", "Uwe",
)  # fmt: skip
LAST_NAMES = (
    "Albrecht", "Böhm", "Çelik", "Dombrowski", "Engelhardt", "Fuß", "Großmann", "Hoang", "Ivanova",
    "Jäger", "Köhler", "Lindqvist", "Müller", "Novák", "O'Neill", "Petrović", "Quandt", "Rößler",
    "Schäfer", "Tran", "Usta", "Vogel", "Weiß", "Yüksel", "Zimmermann",
)  # fmt: skip


class Listing(NamedTuple):
    """A listing as its two pages show it, the visit count included."""

    id: int
    title: str
    district: str
    address: str
    price: int  # euro
    rooms: float
    area: int  # square metres
    built: int
    agent: str
    features: list[str]
    visits: int

    def item(self) -> dict[str, Any]:
        """The item a spider makes of it."""
        return self._asdict()


def agent_name(seed: int, number: int) -> str:
    draw = Draw(seed, "agent", number)
    return f"{draw.pick(FIRST_NAMES)} {draw.pick(LAST_NAMES)}"


def make_listing(seed: int, id: int, district: str, postcode: int, agents: int) -> Listing:
    """The listing with this id; ``agents`` is how many agents share the listings."""
    draw = Draw(seed, "listing", id)
    rooms = draw.between(2, 14) / 2
    area = int(rooms * draw.between(19, 31)) + draw.between(6, 20)
    return Listing(
        id=id,
        title=f"{draw.pick(CHARMS)} {rooms:g}-room {draw.pick(KINDS).lower()} {draw.pick(EXTRAS)}",
        district=district,
        address=f"{draw.pick(STREETS)} {draw.between(1, 180)}, {postcode} {district}",
        price=area * draw.between(310, 960) * 10,
        rooms=rooms,
        area=area,
        built=draw.between(1880, 2025),
        agent=agent_name(seed, id % agents),
        features=draw.sample(FEATURES, draw.between(3, 9)),
        visits=draw.between(3, 90000) // draw.between(1, 40),
    )

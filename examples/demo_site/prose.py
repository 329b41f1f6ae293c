"""Prose: text of the demo site that reads and compresses like text people wrote."""

from __future__ import annotations

from examples.demo_site.draw import Draw

SLOTS: dict[str, tuple[str, ...]] = {
    "place": (
        "the kitchen", "the living room", "the hallway", "the bedroom",
        "the bathroom", "the study",
        "the cellar", "the balcony", "the courtyard", "the stairwell", "the attic",
        "the guest room",
        "the front garden", "the larder", "the children's room", "the loggia",
    ),
    "quality": (
        "surprisingly bright", "quiet even at rush hour", "freshly plastered", "a little narrow",
        "full of morning sun", "warm in January", "pleasantly cool in August", "dated but tidy",
        "wider than the plan suggests", "well insulated", "due for a coat of paint", "original",
        "finished with care", "easy to furnish", "draughty near the door", "newly wired",
    ),
    "material": (
        "oiled oak", "terrazzo", "cork",
        "linoleum from the fifties", "encaustic tiles", "pine boards",
        "slate", "polished screed", "herringbone parquet", "larch", "limestone", "spruce planks",
    ),
    "who": (
        "the owners", "a retired tram driver", "the architect", "our caretaker", "the neighbours",
        "a young family", "the housing association", "the previous tenant", "two musicians",
        "the surveyor", "the bakery downstairs", "a carpenter from Pankow", "the tax adviser",
    ),
    "did": (
        "replaced", "restored", "insulated", "measured", "repainted", "catalogued", "photographed",
        "lowered", "rebuilt", "sanded", "rewired", "fenced off", "planted over", "sound-proofed",
    ),
    "thing": (
        "the double windows", "the tiled stove", "the gas boiler", "the entrance door",
        "the gutters",
        "the rose beds", "the bicycle stands", "the mail boxes", "the fuse box", "the banister",
        "the party wall", "the sash cords", "the rainwater tank", "the shutters", "the bath tub",
    ),
    "when": (
        "in the spring of 2019", "after the storm last October", "before the euro came",
        "during the long renovation", "two summers ago", "just after the wall fell",
        "between Christmas and New Year", "in 1987", "when the tram was extended", "last month",
        "while the scaffolding stood", "in the year of the flood", "long before we moved in",
    ),
    "near": (
        "the weekly market", "the lido", "a primary school", "the tram terminus", "two playgrounds",
        "the canal path", "the library", "an Italian grocer", "the fire station", "the allotments",
        "the old gasworks", "a climbing hall", "the music school", "the cemetery wall", "the ferry",
    ),
    "far": (
        "four minutes on foot", "a short ride by bicycle", "two stops by tram", "around the corner",
        "across the square", "ten minutes if the lights are kind", "behind the church",
        "a pleasant walk along the water", "three streets to the north", "one floor below",
    ),
    "feeling": (
        "We were sceptical at first", "Honestly", "To be fair", "Nobody tells you this",
        "What surprised us", "As so often in this quarter", "If you ask around",
        "According to the land register", "From the window seat", "On paper", "In practice",
        "For anyone who works from home", "With two children", "Seen from the street",
    ),
    "cost": (
        "is included in the price", "will cost about 4,800 euro", "was paid off by the community",
        "needs a quote from a specialist", "is covered by the reserve fund", "can be negotiated",
        "was settled out of court", "qualifies for a subsidised loan", "is a matter of taste",
    ),
    "close": (
        "bring a torch to the viewing", "ask for the energy certificate",
        "check the meter readings",
        "do not skip the cellar", "look at the minutes of the last owners' meeting",
        "come back on a rainy day", "listen at the bedroom window", "take your own measurements",
        "count the steps with a pram in mind", "have the damp course tested",
    ),
}  # fmt: skip

SENTENCES = (
    "{feeling}, {place} is {quality}, and {place2} is {quality2}.",
    "{who} {did} {thing} {when}.",
    "You reach {near} {far}, while {near2} is {far2}.",
    "The floor in {place} is {material}; in {place2} it is {material2}.",
    "{who} told us that {thing} {cost}.",
    "Before you decide, {close} and {close2}.",
    "{when}, {who} {did} {thing}, which is why {place} is {quality} today.",
    "{feeling}, {near} matters more than {material} in {place}.",
    "Work on {thing} {cost}, whereas {thing2} {cost2}.",
    "{place} was {did} {when} and is {quality}; {thing} followed later.",
    "There is {material} under the carpet of {place}, as {who} found out {when}.",
    "{feeling}, it took {number} days until {who} {did} {thing}.",
    "With {number} square metres, {place} is {quality}, and {near} is {far}.",
    "The file lists {number} defects: {thing} was the worst, {thing2} {cost}.",
)

STOCK = 512  # paragraphs in store; a page of 30 KB shows about twenty of them


def paragraph(seed: int, number: int) -> str:
    """Paragraph ``number`` of an endless supply: three to six sentences, plain text."""
    draw = Draw(seed, "prose", number)
    return " ".join(_sentence(draw) for _ in range(draw.between(3, 6)))


def _sentence(draw: Draw) -> str:
    words: dict[str, str] = {"number": str(draw.between(3, 240))}
    for slot, choices in SLOTS.items():
        words[slot], words[slot + "2"] = draw.sample(choices, 2)
    text = draw.pick(SENTENCES).format_map(words)
    return text[0].upper() + text[1:]

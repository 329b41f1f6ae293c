from dataclasses import dataclass

import scrapy
from itemloaders.processors import Join, MapCompose, TakeFirst
from scrapy.loader import ItemLoader


class Product(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()
    colours = scrapy.Field()
    url = scrapy.Field()


@dataclass
class Offer:
    name: str
    price: float


class ProductLoader(ItemLoader):
    default_item_class = Product
    default_output_processor = TakeFirst()
    name_in = MapCompose(str.strip)
    colours_out = Join("/")

import asyncio

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class Currency:
    def __init__(self, currency):
        self.currency = currency
        self.opened = 0

    @classmethod
    def from_crawler(cls, crawler):
        pipeline = cls(crawler.settings["SHOP_CURRENCY"])
        pipeline.stats = crawler.stats
        return pipeline

    def open_spider(self, spider):
        self.opened += 1
        assert spider.name

    def close_spider(self, spider):
        spider.pipelines_closed = getattr(spider, "pipelines_closed", 0) + 1

    def process_item(self, item, spider):
        assert self.opened == 1
        adapter = ItemAdapter(item)
        adapter["price"] = float(adapter["price"].removeprefix(self.currency))
        self.stats.inc_value(f"priced/{spider.name}")
        return item


class Cheap:
    def process_item(self, item):
        if ItemAdapter(item)["price"] > 5:
            raise DropItem(f"too dear: {item!r}")
        return item


class Slow:
    async def process_item(self, item):
        await asyncio.sleep(0)
        ItemAdapter(item)["url"] = "seen"
        return item

import os

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
RETRY_TIMES = 1
USER_AGENT = "shopbot"
TELNETCONSOLE_ENABLED = False
SHOP_CURRENCY = "EUR"
FILES_STORE = os.environ.get("SHOP_FILES", "")

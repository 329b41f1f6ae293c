"""The source of truth: tasks with labels and schedules, the ledger, items and files, logs, hosts,
the cluster, people and their views, the outbox, alerts, exports, the robots.txt of origins, kept
pages, the results of parsing them again, and reports of previews, recipes, the quality of runs,
cases, errors over tasks, decisions about spiders, our identity, proxies, watches, and rules of
aliases."""

from crawlservice.models.alert import (
    OPEN,
    Alert,
    AlertMessage,
    AlertNotice,
    AlertReport,
    AlertRule,
    AlertTarget,
    Severity,
)
from crawlservice.models.alias import AliasRule, TaskAliases
from crawlservice.models.case import Case, CaseSpider
from crawlservice.models.cluster import Era, Generation, Installation, Sample
from crawlservice.models.error import BulkRetry, ErrorGroup
from crawlservice.models.export import EXPORT_NAME, Export, ExportFile
from crawlservice.models.file import MEDIA_TYPE, PageFile, StoredFile
from crawlservice.models.host import HELD, HOST, NOTE, ORDERED, UNSENT, Host
from crawlservice.models.identity import BotKey, HostCredential
from crawlservice.models.ledger import (
    MODEL,
    VERSION,
    Item,
    LogLine,
    Page,
    RowChange,
    Spent,
    StartPart,
    Stat,
    TaskLayer,
    TaskLog,
    TaskState,
    Trap,
)
from crawlservice.models.outbox import Delivery, Event, RowDelivery, Webhook
from crawlservice.models.page import HOST as PAGE_HOST
from crawlservice.models.page import TAG, KeptPage, PageBody, PageSegment
from crawlservice.models.people import (
    Action,
    SetupLink,
    Submission,
    Token,
)
from crawlservice.models.preview import PreviewReport
from crawlservice.models.proxy import Proxy, ProxySource
from crawlservice.models.quality import Finding, Profile
from crawlservice.models.reparse import ParsedPage, ReplacedItem
from crawlservice.models.robots import RobotsFile
from crawlservice.models.spider import MAX_REASON, DisabledSpider, Recipe, RecipeVersion
from crawlservice.models.task import (
    LABEL_NAME,
    LABEL_VALUE,
    LABELS,
    SPIDER,
    Label,
    Run,
    Schedule,
    Task,
)
from crawlservice.models.watch import Watch, WatchDay, WatchedHost, WatchedItem, WatchedPage

__all__ = (
    "EXPORT_NAME", "HELD", "HOST", "LABELS", "LABEL_NAME", "LABEL_VALUE", "MAX_REASON",
    "MEDIA_TYPE", "MODEL", "NOTE", "OPEN", "ORDERED", "PAGE_HOST", "SPIDER", "TAG",
    "UNSENT", "VERSION", "Action", "Alert", "AlertMessage", "AlertNotice",
    "AlertReport", "AlertRule", "AlertTarget", "AliasRule", "BotKey", "BulkRetry", "Case",
    "CaseSpider", "Delivery",
    "DisabledSpider", "Era", "ErrorGroup", "Event", "Export", "ExportFile", "Finding",
    "Generation", "Host", "HostCredential", "Installation", "Item", "KeptPage", "Label",
    "LogLine", "Page", "PageBody", "PageFile", "PageSegment", "ParsedPage", "PreviewReport",
    "Profile", "Proxy", "ProxySource", "Recipe", "RecipeVersion", "ReplacedItem", "RobotsFile",
    "RowChange", "RowDelivery", "Run", "Sample", "Schedule", "SetupLink", "Severity",
    "Spent", "StartPart", "Stat", "StoredFile", "Submission", "Task", "TaskAliases", "TaskLayer",
    "TaskLog", "TaskState", "Token", "Trap", "Watch", "WatchDay", "WatchedHost", "WatchedItem",
    "WatchedPage", "Webhook",
)  # fmt: skip

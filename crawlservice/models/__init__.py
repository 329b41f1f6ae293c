"""The source of truth: tasks with labels and schedules, the ledger, items and files, logs, hosts,
the cluster, people and their views, the outbox, alerts, exports, the robots.txt of origins, kept
pages, what came of parsing them again, recipes, the quality of runs, errors over tasks, what is
decided about spiders, our identity, proxies, watches, and rules of aliases."""

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
from crawlservice.models.budget import Spent, Trap
from crawlservice.models.cluster import Era, Generation, Installation, Sample
from crawlservice.models.host import HELD, HOST, NOTE, ORDERED, UNSENT, Host, RobotsFile
from crawlservice.models.ledger import (
    LABEL_NAME,
    LABEL_VALUE,
    LABELS,
    MODEL,
    VERSION,
    BulkRetry,
    ErrorGroup,
    Item,
    Label,
    LogLine,
    Page,
    RowChange,
    StartPart,
    Stat,
    TaskLayer,
    TaskLog,
    TaskState,
)
from crawlservice.models.outbox import (
    EXPORT_NAME,
    Delivery,
    Event,
    Export,
    ExportFile,
    RowDelivery,
    Webhook,
)
from crawlservice.models.page import HOST as PAGE_HOST
from crawlservice.models.page import (
    MEDIA_TYPE,
    TAG,
    KeptPage,
    PageBody,
    PageFile,
    PageSegment,
    ParsedPage,
    ReplacedItem,
    StoredFile,
)
from crawlservice.models.people import (
    QUERY,
    VIEW_NAME,
    Action,
    BotKey,
    HostCredential,
    SavedView,
    SetupLink,
    Submission,
    Token,
)
from crawlservice.models.proxy import Proxy, ProxySource
from crawlservice.models.quality import Finding, Profile
from crawlservice.models.spider import (
    MAX_REASON,
    AliasRule,
    DisabledSpider,
    Recipe,
    RecipeVersion,
    TaskAliases,
)
from crawlservice.models.task import SPIDER, Run, Schedule, Task
from crawlservice.models.watch import Watch, WatchDay, WatchedHost, WatchedItem, WatchedPage

__all__ = (
    "EXPORT_NAME", "HELD", "HOST", "LABELS", "LABEL_NAME", "LABEL_VALUE", "MAX_REASON",
    "MEDIA_TYPE", "MODEL", "NOTE", "OPEN", "ORDERED", "PAGE_HOST", "QUERY", "SPIDER", "TAG",
    "UNSENT", "VERSION", "VIEW_NAME", "Action", "Alert", "AlertMessage", "AlertNotice",
    "AlertReport", "AlertRule", "AlertTarget", "AliasRule", "BotKey", "BulkRetry", "Delivery",
    "DisabledSpider", "Era", "ErrorGroup", "Event", "Export", "ExportFile", "Finding",
    "Generation", "Host", "HostCredential", "Installation", "Item", "KeptPage", "Label",
    "LogLine", "Page", "PageBody", "PageFile", "PageSegment", "ParsedPage",
    "Profile", "Proxy", "ProxySource", "Recipe", "RecipeVersion", "ReplacedItem", "RobotsFile",
    "RowChange", "RowDelivery", "Run", "Sample", "SavedView", "Schedule", "SetupLink", "Severity",
    "Spent", "StartPart", "Stat", "StoredFile", "Submission", "Task", "TaskAliases", "TaskLayer",
    "TaskLog", "TaskState", "Token", "Trap", "Watch", "WatchDay", "WatchedHost", "WatchedItem",
    "WatchedPage", "Webhook",
)  # fmt: skip

"""A DAG: one crawl a night."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import dag
from crawl_operator import CrawlOperator


@dag(schedule="0 3 * * *", start_date=datetime(2026, 1, 1), catchup=False)
def quotes() -> None:
    CrawlOperator(task_id="crawl", spider="quotes", retries=2, retry_delay=timedelta(minutes=10))


quotes()

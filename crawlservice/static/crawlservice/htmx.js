// Nothing on our pages writes styles into them; the policy of the browser forbids it.
htmx.config.includeIndicatorStyles = false;

# What cloudflare/pint checks in the alert rules, besides what it checks by itself: make lint-rules. Nothing is asked of a Prometheus.
parser {
  schema = "prometheus"
}

rule {
  match {
    kind = "alerting"
  }
  label "severity" {
    value    = "warning|critical|none"
    required = true
    severity = "bug"
  }
  label "stack" {
    value    = "chat"
    required = true
    severity = "bug"
  }
  annotation "summary" {
    required = true
    severity = "bug"
  }
  annotation "runbook_url" {
    required = true
    severity = "bug"
  }
}

# Watchdog always fires: that is its purpose.
rule {
  match {
    name = "Watchdog"
  }
  disable = ["alerts/comparison"]
}

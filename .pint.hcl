# What cloudflare/pint checks in the alert rules, besides what it checks by itself: make lint-rules. Nothing is asked of a Prometheus.
parser {
  schema = "prometheus"
}

rule {
  match {
    kind = "alerting"
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

# The series of the drill has the severity that was asked for.
rule {
  match {
    kind = "alerting"
  }
  ignore {
    name = "ChatstackDrill"
  }
  label "severity" {
    value    = "warning|critical|none"
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

# The recording rule chatstack:relay_left_unchecked has series only while something is wrong.
rule {
  match {
    name = "RelayUnwatched"
  }
  disable = ["alerts/comparison"]
}

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

# Alerts go on while chatstack:held has them, which has series only then. pint takes that for alerts that always fire. The tests
# that `rules --tests` prints find alerts that fire while nothing is wrong.
checks {
  disabled = ["alerts/comparison"]
}

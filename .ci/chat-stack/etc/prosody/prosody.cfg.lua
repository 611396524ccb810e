-- A small XMPP server, as somebody has it before chatstack_exporter.
plugin_paths = { "/usr/local/lib/prosody" }
modules_enabled = { "roster", "saslauth", "tls", "disco", "ping", "http_openmetrics", "http_status" }
modules_disabled = { "s2s" }
interfaces = { "127.0.0.1" }
http_ports = { 5280 }
https_ports = { }
http_interfaces = { "127.0.0.1" }
http_default_host = "chat.example.org"
statistics = "internal"
ssl = { certificate = "/etc/chat/chat.pem", key = "/etc/chat/chat.key" }

VirtualHost "chat.example.org"

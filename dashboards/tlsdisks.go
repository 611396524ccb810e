package dashboards

import "fmt"

// volumeUsage is the used share of each volume, as df counts it.
func volumeUsage() string { return combine("max", sel("chatstack_volume_used_ratio")) }

// forecast is volumeUsage in 7 days, at the pace of the last six hours.
func forecast() string {
	return fmt.Sprintf("clamp_min(1 - predict_linear(%s[6h], %d) / (%s - %s + %s), 0)",
		sel("chatstack_volume_available_bytes"), int((7 * day).Seconds()),
		sel("chatstack_volume_size_bytes"), sel("chatstack_volume_free_bytes"), sel("chatstack_volume_available_bytes"))
}

func (b *builder) tlsDisks() Dashboard {
	const (
		noTLS    = "no TLS target is configured, or none answers"
		noVolume = "no volume is configured"
		noBackup = "no backup is configured, or no file matches"
		noFile   = "no target has a certificate_file"
	)
	left := "(" + combineEndpoints("min", sel("chatstack_tls_certificate_not_after_timestamp_seconds")) + " - time()) / 86400"
	verified := values(Mapped{Text: "does not verify", Color: critical}, Mapped{Text: "verifies", Color: healthy})
	return b.dashboard(
		TLSDisks, "TLS and disks", "Certificates that expire, volumes that fill up, and backups.", "now-7d", nil,
		section{title: "Certificates", panels: []panel{
			bars("Days left", "Days until expiry at each endpoint: its own certificate (leaf), the one for clients of another algorithm (other_leaf), the first in its verified chain, and the one in the server's file.",
				query{left, "{{endpoint}}, {{source}}"}).unit("d").decimals(0).upTo(90).limits(daysLeft).emptyText(noTLS).size(12, 10),
			chart("Days left over time", "A renewal shows as a jump upwards. The lines are the alert's thresholds; a certificate of a short life has lower ones.",
				query{left, "{{endpoint}}, {{source}}"}).unit("d").limitLines(daysLeft).emptyText(noTLS).size(12, 10),
			timeline("Certificate verifies", "Whether the authority, name and date of each server's certificate are valid.",
				query{combineEndpoints("min", sel("chatstack_tls_certificate_verified")), "{{endpoint}}"}).thresholds(goodAtOne()).valueTexts(verified).emptyText(noTLS).size(12, 8),
			timeline("Serves the certificate in its file", "Whether each server serves the certificate in its file, if certificate_file is set. If not, reload the server.",
				query{combineEndpoints("min", sel("chatstack_tls_certificate_matches_file")), "{{endpoint}}"}).thresholds(goodAtOne()).valueTexts(yesNo()).emptyText(noFile).size(12, 8),
		}},
		section{title: "Volumes", panels: []panel{
			bars("Used", "Used share of each volume, as df counts it.",
				query{volumeUsage(), "{{volume}}"}).unit("percentunit").upTo(1).limits(shareLimits).emptyText(noVolume).size(8, 8),
			bars("Forecast for 7 days", "Used share in 7 days, at the pace of the last six hours. Above 100 %, the volume is full earlier.",
				query{combine("max", forecast()), "{{volume}}"}).unit("percentunit").upTo(1).limits(shareLimits).emptyText(noVolume).size(8, 8),
			stat("Readable", "Whether the exporter can read each volume. A mount that hangs cannot be read.",
				query{combine("max", sel("chatstack_volume_error")), "{{volume}}"}).thresholds(criticalFrom(1)).valueTexts(values(Mapped{Text: "yes", Color: healthy}, Mapped{Text: "no", Color: critical})).emptyText(noVolume).size(8, 8),
			chart("Used over time", "Used share of each volume. The lines are the alert's thresholds.",
				query{volumeUsage(), "{{volume}}"}).unit("percentunit").upTo(1).limitLines(shareLimits).emptyText(noVolume),
			chart("Space", "Available bytes, free bytes (including those reserved for root), and the size of each volume.",
				query{combine("min", sel("chatstack_volume_available_bytes")), "{{volume}}, available"},
				query{combine("min", sel("chatstack_volume_free_bytes")), "{{volume}}, free"},
				query{combine("max", sel("chatstack_volume_size_bytes")), "{{volume}}, size"}).unit("bytes").emptyText(noVolume),
			chart("Inodes used", "Used share of the volume's inodes, if its file system has a fixed number of them.",
				query{combine("max", sel("chatstack_volume_inodes_used_ratio")), "{{volume}}"}).unit("percentunit").upTo(1).limitLines(shareLimits).emptyText("no volume has a fixed number of inodes"),
			timeline("Writable", "Whether the file system of each volume accepts writes. Some turn read-only after an error of the disk.",
				query{combine("max", sel("chatstack_volume_read_only")), "{{volume}}"}).thresholds(criticalFrom(1)).valueTexts(values(Mapped{Text: "yes", Color: healthy}, Mapped{Text: "read-only", Color: critical})).emptyText(noVolume).size(12, 8),
		}},
		section{title: "Backups", panels: []panel{
			chart("Age of the newest backup", "Time since the newest file was written. A backup that ran shows as a drop to zero.",
				query{"time() - " + combine("max", sel("chatstack_backup_last_timestamp_seconds")), "{{target}}"}).unit("s").emptyText(noBackup).size(12, 8),
			chart("Size of the newest backup", "A sudden drop means that part of the data is missing, or that the backup is being written.",
				query{combine("max", sel("chatstack_backup_size_bytes")), "{{target}}"}).unit("bytes").emptyText(noBackup).size(12, 8),
		}},
	)
}

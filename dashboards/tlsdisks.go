package dashboards

import "fmt"

// volumeUsage is the used part of each volume, as df counts it.
func volumeUsage() string { return each("max", sel("chatstack_volume_used_ratio")) }

// forecast is volumeUsage in a week, if it goes on as over the last six hours.
func forecast() string {
	return fmt.Sprintf("clamp_min(1 - predict_linear(%s[6h], %d) / (%s - %s + %s), 0)",
		sel("chatstack_volume_available_bytes"), int((7 * day).Seconds()),
		sel("chatstack_volume_size_bytes"), sel("chatstack_volume_free_bytes"), sel("chatstack_volume_available_bytes"))
}

func (b *book) volumeLimits() Thresholds {
	u := b.alerts.DataVolumeUsage
	return above(float64(u.Warning.Over)/100, float64(u.Critical.Over)/100)
}

func (b *book) inodeLimits() Thresholds {
	u := b.alerts.DataVolumeInodes
	return above(float64(u.Warning.Over)/100, float64(u.Critical.Over)/100)
}

func (b *book) tlsDisks() Dashboard {
	const (
		noTLS    = "no TLS target is configured, or none answers"
		noVolume = "no volume is configured"
		noFile   = "no certificate file is bound to an endpoint"
	)
	expiry := b.alerts.TLSCertificateExpiry
	inDays := below(expiry.Critical.Under.Std().Hours()/24, expiry.Warning.Under.Std().Hours()/24)
	left := "(" + eachEndpoint("min", sel("chatstack_tls_certificate_not_after_timestamp_seconds")) + " - time()) / 86400"
	verified := values(Mapped{Text: "does not verify", Color: critical}, Mapped{Text: "verifies", Color: well})
	return b.dashboard(
		TLSDisks, "TLS and disks", "What ends or fills up some day: certificates and volumes.", "now-7d", nil,
		section{title: "Certificates", panels: []panel{
			b.guided(bars("Days left", "Of each endpoint: its own certificate (leaf), the first of the chain that verifies, and the one in the server's file.",
				query{left, "{{endpoint}}, {{source}}"}).unit("d").decimals(0).upTo(90).limits(inDays).none(noTLS).size(12, 10), "TLSCertificateExpiry"),
			b.guided(chart("Days left over time", "A renewal is a jump upwards. The lines are the alert's thresholds.",
				query{left, "{{endpoint}}, {{source}}"}).unit("d").drawn(inDays).none(noTLS).size(12, 10), "TLSCertificateExpiry"),
			b.guided(timeline("Verifies", "Whether authority, name and date of each server's certificate verify.",
				query{eachEndpoint("min", sel("chatstack_tls_certificate_verified")), "{{endpoint}}"}).limits(good()).maps(verified).none(noTLS).size(12, 8), "TLSChainInvalid"),
			b.guided(timeline("Served is renewed", "Whether each server shows the certificate that is in its file, where one is configured. If not, it wants a reload.",
				query{eachEndpoint("min", sel("chatstack_tls_certificate_matches_file")), "{{endpoint}}"}).limits(good()).maps(yesNo()).none(noFile).size(12, 8), "TLSServedNotRenewed"),
		}},
		section{title: "Volumes", panels: []panel{
			b.guided(bars("Used", "Used part of each volume, as df counts it.",
				query{volumeUsage(), "{{volume}}"}).unit("percentunit").upTo(1).limits(b.volumeLimits()).none(noVolume).size(8, 8), "DataVolumeUsage"),
			bars("Used in a week", "If it goes on as over the last six hours. Over 100 % it is full before.",
				query{each("max", forecast()), "{{volume}}"}).unit("percentunit").upTo(1).limits(b.volumeLimits()).none(noVolume).size(8, 8),
			stat("Readable", "Whether each volume can be read; a hung mount cannot.",
				query{each("max", sel("chatstack_volume_error")), "{{volume}}"}).limits(critically(1)).maps(values(Mapped{Text: "yes", Color: well}, Mapped{Text: "no", Color: critical})).none(noVolume).size(8, 8),
			b.guided(chart("Used over time", "With the alert's thresholds.",
				query{volumeUsage(), "{{volume}}"}).unit("percentunit").upTo(1).drawn(b.volumeLimits()).none(noVolume), "DataVolumeUsage"),
			chart("Room", "Bytes that may still be written, that are free with what is kept for root, and the size of each volume.",
				query{each("min", sel("chatstack_volume_available_bytes")), "{{volume}}, available"},
				query{each("min", sel("chatstack_volume_free_bytes")), "{{volume}}, free"},
				query{each("max", sel("chatstack_volume_size_bytes")), "{{volume}}, size"}).unit("bytes").none(noVolume),
			chart("Inodes used", "Used part of the volume's inodes, where its file system has a fixed number of them.",
				query{each("max", sel("chatstack_volume_inodes_used_ratio")), "{{volume}}"}).unit("percentunit").upTo(1).drawn(b.inodeLimits()).none("no volume has a fixed number of inodes"),
		}},
	)
}

package collectors

import (
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// productMemory remembers which product a target's server has shown: one that refuses the exporter's address shows it no more.
type productMemory struct{ seen exchange.Product }

// advise gives the failure of a limited address the advice for the product, if that is known. It returns other errors unchanged.
func (m *productMemory) advise(b *Batch, err error) error {
	if b.Product != "" {
		m.seen = b.Product
	}
	if err == nil || m.seen == "" || failure.ReasonOf(err) != failure.Throttled {
		return err
	}
	return failure.Errorf(failure.Throttled, "%w", err).WithHint(exchange.LimitHint(m.seen))
}

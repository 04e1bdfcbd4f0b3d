// Watches the Workload API with go-spiffe, and prints one line of JSON for each state that it is given.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

type watcher struct{}

func (watcher) OnX509ContextUpdate(c *workloadapi.X509Context) {
	svid := c.DefaultSVID()
	// The library's own judgement of the chain, against the bundle that came with it.
	_, _, err := x509svid.Verify(svid.Certificates, c.Bundles)
	roots := 0
	if bundle, found := c.Bundles.Get(svid.ID.TrustDomain()); found {
		roots = len(bundle.X509Authorities())
	}
	foreignRoots := 0
	if bundle, found := c.Bundles.Get(spiffeid.RequireTrustDomainFromString("other.test")); found {
		foreignRoots = len(bundle.X509Authorities())
	}
	line, _ := json.Marshal(map[string]any{
		"spiffeId":     svid.ID.String(),
		"serial":       fmt.Sprintf("%x", svid.Certificates[0].SerialNumber),
		"roots":        roots,
		"foreignRoots": foreignRoots,
		"verified":     err == nil,
	})
	fmt.Println(string(line))
}

func (watcher) OnX509ContextWatchError(err error) {
	fmt.Fprintln(os.Stderr, err)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := workloadapi.WatchX509Context(ctx, watcher{}); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

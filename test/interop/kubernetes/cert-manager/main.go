// Runs cert-manager's own code against an API server: its webhook, its approver and its controllers of Certificates.
// Its commands are modules of their own that no proxy has, so this starts in place of them what they start.
package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	webhook "github.com/cert-manager/cert-manager/test/webhook"
)

var names = []string{
	approver.ControllerName, issuing.ControllerName, keymanager.ControllerName, readiness.ControllerName,
	requestmanager.ControllerName, revisionmanager.ControllerName, trigger.ControllerName,
}

// The webhook without its certificates' rotation is in a package for tests, which takes one.
func main() {
	matches := func(_, _ string) (bool, error) { return true, nil }
	testing.Main(matches, []testing.InternalTest{{Name: "cert-manager", F: run}}, nil, nil)
}

// Gets two kubeconfigs, as the two deployments have an account each, and prints where the webhook is.
func run(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	served, end := webhook.StartWebhookServer(t, []string{"--kubeconfig=" + os.Getenv("WEBHOOK_KUBECONFIG")})
	defer end()
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         os.Getenv("CONTROLLER_KUBECONFIG"),
		KubernetesAPIQPS:   50,
		KubernetesAPIBurst: 100,
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	require(t, err)
	all := make([]controller.Interface, len(names))
	for i, name := range names {
		all[i], err = controller.Known()[name](factory)
		require(t, err)
	}
	shared, err := factory.Build("controller")
	require(t, err)
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	for _, each := range all {
		go func() {
			if err := each.Run(2, ctx); err != nil {
				t.Error(err)
				stop()
			}
		}()
	}
	require(t, json.NewEncoder(os.Stdout).Encode(map[string]string{"url": served.URL, "ca": string(served.CAPEM)}))
	<-ctx.Done()
}

func require(t *testing.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

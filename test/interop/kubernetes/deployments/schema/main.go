// Reads objects as JSON, one on each line, and prints a line for each that the types of this Kubernetes refuse.
package main

import (
	"bufio"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, rbac.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	read := 0
	for lines.Scan() {
		if _, kind, err := decoder.Decode(lines.Bytes(), nil, nil); err != nil {
			fmt.Printf("refused: %v: %v\n", kind, err)
		} else {
			read++
		}
	}
	fmt.Printf("read: %d\n", read)
}

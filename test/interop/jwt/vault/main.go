// Vault's JWT auth method, as Vault's core mounts it: one configuration, one role, and logins by tokens that come on
// standard input, one a line. Only the method is real: the storage is played here.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	jwtauth "github.com/hashicorp/vault-plugin-auth-jwt"
	"github.com/hashicorp/vault/sdk/logical"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the configuration and the role as JSON.
func run() error {
	ctx := context.Background()
	storage := &logical.InmemStorage{}
	backend, err := jwtauth.Factory(ctx, &logical.BackendConfig{
		StorageView: storage,
		Logger:      hclog.NewNullLogger(),
		System: &logical.StaticSystemView{
			DefaultLeaseTTLVal: time.Hour,
			MaxLeaseTTLVal:     time.Hour,
		},
	})
	if err != nil {
		return err
	}
	call := func(operation logical.Operation, path string, data map[string]any) (*logical.Response, error) {
		response, err := backend.HandleRequest(ctx, &logical.Request{
			Operation: operation, Path: path, Data: data, Storage: storage,
			Connection: &logical.Connection{RemoteAddr: "127.0.0.1"},
		})
		if err == nil && response != nil && response.IsError() {
			err = response.Error()
		}
		return response, err
	}
	operations := []logical.Operation{logical.UpdateOperation, logical.CreateOperation}
	for i, path := range []string{"config", "role/cart"} {
		data := map[string]any{}
		if err := json.Unmarshal([]byte(os.Args[i+1]), &data); err != nil {
			return err
		}
		if _, err := call(operations[i], path, data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		response, err := call(logical.UpdateOperation, "login", map[string]any{"role": "cart", "jwt": lines.Text()})
		if err != nil {
			fmt.Printf("refused: %q\n", err.Error())
		} else {
			fmt.Printf("%s\n", response.Auth.Alias.Name)
		}
	}
	return lines.Err()
}

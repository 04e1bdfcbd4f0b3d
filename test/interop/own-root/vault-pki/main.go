// The PKI and the transit engine of HashiCorp Vault 1.14, from which OpenBao's come, behind the part of Vault's
// HTTP API that Rampart uses. Only the engines are real: tokens, mounts and storage are played here.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/logical/pki"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/framework"
	"github.com/hashicorp/vault/sdk/logical"
)

var factories = map[string]logical.Factory{"pki": pki.Factory, "transit": transitFactory}

type engine struct {
	backend logical.Backend
	storage logical.Storage
}

type server struct {
	engines map[string]engine
	token   string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	token := flag.String("token", "", "of an administrator")
	certificate := flag.String("certificate", "", "file of the server's certificate")
	key := flag.String("key", "", "file of its key")
	port := flag.Int("port", 0, "of this machine, 0 for a free one")
	flag.Parse()

	engines := map[string]engine{}
	for name, factory := range factories {
		opened, err := open(name, factory)
		if err != nil {
			return err
		}
		engines[name] = opened
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		return err
	}
	line, _ := json.Marshal(map[string]int{"port": listener.Addr().(*net.TCPAddr).Port})
	fmt.Println(string(line))
	return http.ServeTLS(listener, &server{engines, *token}, *certificate, *key)
}

// transitFactory makes up for Vault's core, which asks each path whether what it writes is there already.
func transitFactory(ctx context.Context, config *logical.BackendConfig) (logical.Backend, error) {
	backend, err := transit.Backend(ctx, config)
	if err != nil {
		return nil, err
	}
	for _, path := range backend.Backend.Paths {
		if path.ExistenceCheck == nil {
			path.ExistenceCheck = func(context.Context, *logical.Request, *framework.FieldData) (bool, error) {
				return true, nil
			}
		}
	}
	return backend, backend.Setup(ctx, config)
}

func open(name string, factory logical.Factory) (engine, error) {
	storage := &logical.InmemStorage{}
	ctx := context.Background()
	backend, err := factory(ctx, &logical.BackendConfig{
		StorageView: storage,
		Logger:      hclog.NewNullLogger(),
		System: &logical.StaticSystemView{
			DefaultLeaseTTLVal: 24 * time.Hour,
			MaxLeaseTTLVal:     10 * 365 * 24 * time.Hour,
		},
		BackendUUID: name,
	})
	if err != nil {
		return engine{}, err
	}
	request := &logical.InitializationRequest{Storage: storage}
	return engine{backend, storage}, backend.Initialize(ctx, request)
}

// ServeHTTP does with a request what Vault's core does with one for a mounted engine.
func (s *server) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if request.Header.Get("X-Vault-Token") != s.token {
		answer(response, http.StatusForbidden, map[string]any{"errors": []string{"permission denied"}})
		return
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/v1/"), "/")
	e, isMounted := s.engines[name]
	if !isMounted {
		answer(response, http.StatusNotFound, map[string]any{"errors": []string{"no handler for route"}})
		return
	}
	data := map[string]any{}
	if request.Method != http.MethodGet {
		if err := json.NewDecoder(request.Body).Decode(&data); err != nil {
			answer(response, http.StatusBadRequest, map[string]any{"errors": []string{err.Error()}})
			return
		}
	}
	var operation logical.Operation = logical.UpdateOperation
	if request.Method == http.MethodGet {
		operation = logical.ReadOperation
	}
	result, err := e.backend.HandleRequest(request.Context(), &logical.Request{
		Operation:  operation,
		Path:       path,
		Data:       data,
		Storage:    e.storage,
		MountPoint: name + "/",
	})
	switch {
	case result != nil && result.IsError():
		answer(response, http.StatusBadRequest, map[string]any{"errors": []string{result.Error().Error()}})
	case err != nil:
		answer(response, http.StatusInternalServerError, map[string]any{"errors": []string{err.Error()}})
	case result == nil:
		response.WriteHeader(http.StatusNoContent)
	default:
		answer(response, http.StatusOK, map[string]any{"data": result.Data, "warnings": result.Warnings})
	}
}

func answer(response http.ResponseWriter, status int, body map[string]any) {
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	json.NewEncoder(response).Encode(body)
}

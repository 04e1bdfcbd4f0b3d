module github.com/envoyproxy/go-control-plane/contrib

go 1.26.0

module rampart.dev/interop/fuzz

go 1.26.0

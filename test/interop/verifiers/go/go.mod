module rampart.test/verifier

go 1.24

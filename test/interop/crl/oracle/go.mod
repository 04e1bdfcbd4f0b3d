module rampart.test/crl-oracle

go 1.24

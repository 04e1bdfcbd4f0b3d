module rampart.test/own-root-oracle

go 1.24

module rampart.test/post-quantum

go 1.27.0

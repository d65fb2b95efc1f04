module github.com/sealstone/sealstone

go 1.26

module example.org/guard

go 1.26

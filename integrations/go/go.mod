module granary/embed

go 1.22

// Package deploy puts Granary under the services of a machine: it writes a systemd drop-in, checks after
// a restart that the service runs under the allocator, and reverts the change if it does not. It never
// changes a file of a package. Without systemd it prints the settings to make.
package deploy

import (
	"slices"
	"strings"
)

// A Service is a service with a short name. Every other systemd unit is named in full.
type Service struct {
	Name  string
	Units []string // the names of its unit in distributions; the first that exists applies; may contain *
	// Defaults is the file below /etc/default that its init script reads.
	Defaults string
	// Safe says that mysqld_safe starts it on systems without systemd.
	Safe bool
	// Note is one message with advice for the service's owner.
	Note string
}

const mysqlNote = "SELECT @@version_malloc_library names the allocator"

// Services is the table.
var Services = []Service{
	{Name: "mariadb", Units: []string{"mariadb", "mysqld", "mysql"}, Defaults: "mariadb", Safe: true, Note: mysqlNote},
	{Name: "mysql", Units: []string{"mysql", "mysqld", "mariadb"}, Defaults: "mysql", Safe: true, Note: "Granary is then in @@version_malloc_library of MariaDB; MySQL has no such variable"},
	{Name: "redis", Units: []string{"redis-server", "redis", "redis_6379"}, Defaults: "redis-server",
		Note: "INFO memory shows the mem_allocator that Redis was compiled with; `granary status` shows the allocator that it calls"},
	{Name: "valkey", Units: []string{"valkey-server", "valkey"}, Defaults: "valkey-server"},
	{Name: "nginx", Units: []string{"nginx"}, Defaults: "nginx",
		Note: "`nginx -s reload` keeps the allocator: only a restart of the master process changes it"},
	{Name: "php-fpm", Units: []string{"php-fpm", "php*-fpm"}, Defaults: "php-fpm"},
	{Name: "memcached", Units: []string{"memcached"}, Defaults: "memcached"},
	{Name: "haproxy", Units: []string{"haproxy"}, Defaults: "haproxy"},
	{Name: "varnish", Units: []string{"varnish"}, Defaults: "varnish"},
}

// Names are the services that can be named in short.
func Names() []string {
	var out []string
	for _, s := range Services {
		out = append(out, s.Name)
	}
	return out
}

// serviceOf returns the row of a service. A unit without a row becomes a service with the unit's name.
func serviceOf(name string) Service {
	short := strings.TrimSuffix(name, suffix)
	i := slices.IndexFunc(Services, func(s Service) bool { return s.Name == short })
	if i >= 0 && short == name {
		return Services[i]
	}
	return Service{Name: short, Units: []string{short}, Defaults: short}
}

const suffix = ".service"

// unitNames are the full names of the units that a service may have.
func (s Service) unitNames() []string {
	var out []string
	for _, u := range s.Units {
		out = append(out, u+suffix)
	}
	return out
}

// aboutUnit is the row of a unit, with its notes.
func aboutUnit(id string) Service {
	short := strings.TrimSuffix(id, suffix)
	for _, s := range Services {
		if s.Name == short || slices.Contains(s.Units, short) {
			return s
		}
	}
	return serviceOf(id)
}

/* Built-in machines. Their numbers are round example values: simulation results hold for these
 * numbers only. */
#include <string.h>

#include "topo/topo.h"

struct built_in {
    const char *name, *summary, *text;
};

static const struct built_in built_ins[] = {
    { "four-buildings",
      "131,072 ranks in four buildings, with three layers of switches and 1:2.8 oversubscription "
      "between buildings",
      "{ \"name\": \"four-buildings\", \"node\": \"mesh\", \"rails\": 8,\n"
      "  \"links\": {\n"
      "    \"socket\":   { \"latency_ns\": 500,   \"gbit_s\": 3600 },\n"
      "    \"host\":     { \"latency_ns\": 500,   \"gbit_s\": 3600 },\n"
      "    \"rack\":     { \"latency_ns\": 1000,  \"gbit_s\": 400 },\n"
      "    \"zone\":     { \"latency_ns\": 7000,  \"oversubscription\": 1 },\n"
      "    \"building\": { \"latency_ns\": 15000, \"oversubscription\": 1 },\n"
      "    \"fabric\":   { \"latency_ns\": 30000, \"oversubscription\": 2.8 } },\n"
      "  \"machine\": { \"ranks_per_host\": 8, \"hosts_per_rack\": 2, \"racks_per_zone\": 256,\n"
      "    \"zones_per_building\": 8, \"buildings\": 4 } }\n" },
    { "uniform", "up to 131,072 hosts with one rank each on one switch, 1 us and 100 Gbit/s",
      "{ \"name\": \"uniform\",\n"
      "  \"links\": { \"rack\": { \"latency_ns\": 1000, \"gbit_s\": 100 } },\n"
      "  \"machine\": { \"hosts_per_rack\": 131072 } }\n" },
    { "two-sockets",
      "one host with four ranks on two sockets: 0 and 1, 2 and 3; one link between the sockets",
      "{ \"name\": \"two-sockets\", \"node\": \"sockets\",\n"
      "  \"machine\": { \"ranks_per_host\": 4, \"sockets_per_host\": 2 } }\n" },
};
#define NBUILT_INS (sizeof built_ins / sizeof *built_ins)

bool tt_topo_builtin(size_t i, const char **name, const char **summary)
{
    if (i >= NBUILT_INS)
        return false;
    *name = built_ins[i].name;
    *summary = built_ins[i].summary;
    return true;
}

const char *tt_topo_builtin_text(const char *name)
{
    for (size_t i = 0; i < NBUILT_INS; i++)
        if (strcmp(name, built_ins[i].name) == 0)
            return built_ins[i].text;
    return NULL;
}

/* Graphs: nodes with work and dependencies; executable graphs, which run them on streams. */
#ifndef TT_EMU_GRAPH_H
#define TT_EMU_GRAPH_H

#include "work.h"

#include <pthread.h>

/* A list of nodes without duplicates. */
struct tt_emu_nodes {
    CUgraphNode *node;
    size_t n, max;
};

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNodeType type;
    struct tt_emu_work work;        /* EMPTY for node types without work */
    CUgraph child;                  /* owned; of a child node */
    CUevent event;                  /* of an event node; the program keeps it alive */
    struct tt_emu_nodes before;     /* dependencies */
    CUgraphNode original;           /* in a clone: the node that it was copied from */
};

struct CUgraph_st {
    struct tt_emu_nodes nodes;      /* in the order of their creation: a topological order */
    struct tt_emu_held *held;       /* user objects */
};

/* Protects all graphs and captures. */
extern pthread_mutex_t tt_emu_graph_lock;

bool tt_emu_nodes_has(const struct tt_emu_nodes *list, CUgraphNode node);
void tt_emu_nodes_add(struct tt_emu_nodes *list, CUgraphNode node);
void tt_emu_nodes_copy(struct tt_emu_nodes *to, const struct tt_emu_nodes *from);
void tt_emu_nodes_fini(struct tt_emu_nodes *list);

CUgraph tt_emu_graph_create(void);
CUresult tt_emu_graph_destroy(CUgraph g);
CUresult tt_emu_graph_clone(CUgraph g, CUgraph *out);

/* Adds a node, which owns `work` also on error. The dependencies are nodes of the graph. With the
 * lock held. */
CUresult tt_emu_graph_add(CUgraph g, CUgraphNodeType type, struct tt_emu_work *work,
                          const CUgraphNode *before, size_t n, CUgraphNode *out);

/* As tt_emu_graph_add, with checks of the handles; takes the lock. */
CUresult tt_emu_graph_add_work(CUgraph g, CUgraphNodeType type, struct tt_emu_work *work,
                               const CUgraphNode *before, size_t n, CUgraphNode *out);
CUresult tt_emu_graph_add_child(CUgraph g, CUgraph child, const CUgraphNode *before, size_t n,
                                CUgraphNode *out);
CUresult tt_emu_graph_add_event(CUgraph g, CUgraphNodeType type, CUevent e,
                                const CUgraphNode *before, size_t n, CUgraphNode *out);

/* Adds dependencies from[i] -> to[i]. CUDA_ERROR_INVALID_VALUE if this forms a cycle, or if an
 * earlier node would depend on one that was created later. */
CUresult tt_emu_graph_depend(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n);

/* The node type that graphs report for this work. */
CUgraphNodeType tt_emu_graph_type(const struct tt_emu_work *work);

/* Lists nodes as CUDA does: if out is NULL, *n receives their number; otherwise up to *n nodes. */
CUresult tt_emu_graph_list(CUgraph g, bool roots_only, CUgraphNode *out, size_t *n);
CUresult tt_emu_graph_edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n);
CUresult tt_emu_graph_neighbours(CUgraphNode node, bool after, CUgraphNode *out, size_t *n);

/* ---- user objects ---- */

CUresult tt_emu_object_create(void *p, CUhostFn destroy, unsigned refs, CUuserObject *out);
CUresult tt_emu_object_retain(CUuserObject o, unsigned n);
CUresult tt_emu_object_release(CUuserObject o, unsigned n);
CUresult tt_emu_graph_hold(CUgraph g, CUuserObject o, unsigned n, bool move);
/* Acquires further references to the objects of a list, or releases them. */
struct tt_emu_held *tt_emu_held_copy(const struct tt_emu_held *held);
void tt_emu_held_release(struct tt_emu_held *held);

CUresult tt_emu_graph_unhold(CUgraph g, CUuserObject o, unsigned n);

#endif

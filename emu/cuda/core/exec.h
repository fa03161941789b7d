/* Executable graphs. A graph whose nodes form a chain runs on the stream of its launch; otherwise
 * its branches run on lanes (streams of the executable graph) and overlap. */
#ifndef TT_EMU_EXEC_H
#define TT_EMU_EXEC_H

#include "graph.h"

CUresult tt_emu_exec_create(CUgraph g, CUgraphExec *out);
CUresult tt_emu_exec_destroy(CUgraphExec x);

/* Replaces the parameters of all nodes by those of a graph of the same shape. Otherwise
 * CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, and *why is the difference. */
CUresult tt_emu_exec_update(CUgraphExec x, CUgraph g, CUgraphExecUpdateResult *why);

/* Replaces the work of the node that was made from `node`; owns `work` also on error. */
CUresult tt_emu_exec_set(CUgraphExec x, CUgraphNode node, struct tt_emu_work *work);

CUresult tt_emu_exec_launch(CUgraphExec x, CUstream stream);

#endif

/* The properties of an emulated device, and of pointers. */
#ifndef TT_EMU_ATTRIBUTES_H
#define TT_EMU_ATTRIBUTES_H

#include <cuda.h>

#define TT_EMU_DEVICE_NAME "Tutti Emulated GPU"
#define TT_EMU_CUDA_VERSION 13000

/* An attribute of an existing device; CUDA_ERROR_INVALID_VALUE for an unknown one. */
CUresult tt_emu_device_attribute(int device, CUdevice_attribute which, int *out);

/* The UUID of a device: the same in all processes of a host. */
void tt_emu_device_uuid(int device, char uuid[16]);

/* "0000:17:00.0" */
void tt_emu_device_pci(int device, char *text, int bytes);

/* The device with a PCI address, or -1. */
int tt_emu_device_by_pci(const char *text);

#endif

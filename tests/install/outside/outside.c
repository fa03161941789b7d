/* A program of someone who has only what was installed. */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

int main(void)
{
    char header[32];

    snprintf(header, sizeof header, "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    if (strcmp(header, tutti_version()) != 0) {
        fprintf(stderr, "header %s, library %s\n", header, tutti_version());
        return 1;
    }
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
        if (tutti_dtype_bytes((tutti_dtype)type) == 0)
            return 1;
    printf("tutti %s: %s of %s is %s\n", tutti_version(), tutti_redop_name(TUTTI_SUM), tutti_dtype_name(TUTTI_F32),
           tutti_status_name(TUTTI_OK));
    return 0;
}

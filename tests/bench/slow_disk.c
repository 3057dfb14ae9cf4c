/* Preloaded into a broker: writes below one folder take as long as a slow disk would need.
 *
 * The file named by SLOW_DISK is shared memory: bytes per second (0: no limit), then the folder.
 * All writers wait for one another, as they do for one disk. Index files are mapped and stay fast.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct disk {
    volatile uint32_t bytes_per_second;
    char folder[4092];
};

static struct disk *disk;
static pthread_mutex_t head = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("SLOW_DISK");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0)
        return;
    void *found = mmap(NULL, sizeof *disk, PROT_READ, MAP_SHARED, fd, 0);
    disk = found == MAP_FAILED ? NULL : found;
    close(fd);
}

static int lies_there(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t wanted = strlen(disk->folder);
    return length > (ssize_t)wanted && !strncmp(path, disk->folder, wanted) && path[wanted] == '/';
}

static void waited(int fd, size_t bytes)
{
    if (disk && disk->bytes_per_second && lies_there(fd)) {
        pthread_mutex_lock(&head);
        uint32_t rate = disk->bytes_per_second;
        if (rate) {
            uint64_t nanos = (uint64_t)bytes * 1000000000ull / rate;
            struct timespec pause = {nanos / 1000000000ull, nanos % 1000000000ull};
            nanosleep(&pause, NULL);
        }
        pthread_mutex_unlock(&head);
    }
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *from, size_t count)
{
    NEXT(write);
    waited(fd, count);
    return next(fd, from, count);
}

ssize_t writev(int fd, const struct iovec *from, int count)
{
    NEXT(writev);
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += from[i].iov_len;
    waited(fd, bytes);
    return next(fd, from, count);
}

ssize_t pwrite64(int fd, const void *from, size_t count, off64_t offset)
{
    NEXT(pwrite64);
    waited(fd, count);
    return next(fd, from, count, offset);
}

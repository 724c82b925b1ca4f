/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_probe.c - preloaded into a server: tries forbidden system calls inside its process.
 *
 * SIGUSR1 runs the attempts in the thread that receives it. SIGUSR2 runs them in a thread that was
 * started before the sandbox. Each attempt appends "name errno" to the file of PROBE_OUT; 0: it was
 * successful. The last line is "end".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int out = -1;
static char written_file[512], model_file[512];

static void report(const char *name, long result)
{
    char line[64];
    const int n = snprintf(line, sizeof line, "%s %d\n", name, result < 0 ? errno : 0);
    if (write(out, line, (size_t)n) != n)
        _exit(99);
}

static void report_open(const char *name, const char *path, int flags)
{
    const int fd = open(path, flags, 0600);
    report(name, fd);
    if (fd >= 0)
        close(fd);
}

static void probe_all(void)
{
    char *const nothing[] = {NULL};
    const long child = syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL);
    if (child == 0)
        _exit(0);
    report("fork", child);
    /* There is no such file: the process is not replaced where exec is allowed. */
    const long executed = syscall(SYS_execve, "/nonexistent", nothing, nothing);
    report("execve", executed < 0 && errno == ENOENT ? 0 : executed);
    report_open("open_write", written_file, O_WRONLY | O_CREAT);
    report_open("open_read", "/etc/passwd", O_RDONLY);
    report_open("open_model", model_file, O_RDONLY);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    report("socket", fd);
    if (fd >= 0)
        close(fd);
    report("mmap_exec",
           mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
               ? -1
               : 0);
    report("kill", kill(getpid(), 0));
    const long traced = ptrace(PTRACE_PEEKDATA, 1, NULL, NULL);
    report("ptrace", traced < 0 && errno == ESRCH ? 0 : traced);
    if (write(out, "end\n", 4) != 4)
        _exit(99);
}

static void on_signal(int number)
{
    (void)number;
    const int saved = errno;
    probe_all();
    errno = saved;
}

static void *early_thread(void *unused)
{
    sigset_t set;
    int number;
    (void)unused;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigwait(&set, &number);
    probe_all();
    return NULL;
}

__attribute__((constructor)) static void probe_begin(void)
{
    const char *path = getenv("PROBE_OUT"), *model = getenv("PROBE_MODEL");
    pthread_t thread;
    sigset_t set;
    if (path == NULL || model == NULL)
        return;
    out = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    snprintf(written_file, sizeof written_file, "%s.written", path);
    snprintf(model_file, sizeof model_file, "%s", model);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, NULL, early_thread, NULL);
}

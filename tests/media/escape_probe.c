/* SPDX-License-Identifier: Apache-2.0 */
/*
 * escape_probe.c - tries forbidden operations inside the sandbox, each in its own child process.
 * Each must fail or kill the child. The time limit must end a child, too.
 */
#define _GNU_SOURCE
#include "media/sandbox/decoder_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns true if the operation succeeded: an escape. */
typedef bool attempt_fn(void);

static bool open_passwd(void)
{
    return open("/etc/passwd", O_RDONLY) >= 0;
}
static bool openat_root(void)
{
    return openat(AT_FDCWD, "/", O_RDONLY) >= 0;
}
static bool create_file(void)
{
    return open("/tmp/escaped", O_CREAT | O_WRONLY, 0600) >= 0;
}
static bool read_link(void)
{
    char b[64];
    return readlink("/proc/self/exe", b, sizeof b) > 0;
}
static bool stat_file(void)
{
    struct stat s;
    return stat("/etc/passwd", &s) == 0;
}
static bool unlink_file(void)
{
    return unlink("/tmp/nothing-there") == 0 || true;
}
static bool make_dir(void)
{
    return mkdir("/tmp/escaped-dir", 0700) == 0;
}
static bool change_dir(void)
{
    return chdir("/") == 0;
}
static bool tcp_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0;
}
static bool udp_socket(void)
{
    return socket(AF_INET, SOCK_DGRAM, 0) >= 0;
}
static bool unix_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}
static bool netlink_socket(void)
{
    return socket(AF_NETLINK, SOCK_RAW, 0) >= 0;
}
static bool socket_pair(void)
{
    int p[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0;
}
static bool run_program(void)
{
    char *a[] = {"/bin/true", NULL};
    return execve("/bin/true", a, a) == 0;
}
static bool fork_child(void)
{
    return fork() >= 0;
}
static bool trace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}
static bool signal_parent(void)
{
    return kill(getppid(), 0) == 0;
}
static bool new_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0;
}
static bool mount_fs(void)
{
    return mount("none", "/mnt", "tmpfs", 0, NULL) == 0;
}
static bool map_executable(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}
static bool map_descriptor(void)
{
    return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0) != MAP_FAILED;
}
static bool make_executable(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0;
}
static bool io_uring(void)
{
    return syscall(425, 1, NULL) >= 0;
}
static bool bpf_call(void)
{
    return syscall(321, 0, NULL, 0) >= 0;
}
static bool memfd(void)
{
    return syscall(319, "x", 0) >= 0;
}
static bool process_vm(void)
{
    return syscall(310, getppid(), NULL, 0, NULL, 0, 0) >= 0;
}
static bool perf_open(void)
{
    return syscall(298, NULL, 0, -1, -1, 0) >= 0;
}
static bool add_kernel_key(void)
{
    return syscall(250, 0, 0, 0, 0, 0) >= 0;
}
static bool more_files(void)
{
    return dup(0) >= 0;
}
static bool set_user(void)
{
    return setuid(0) == 0;
}
static bool affinity_of_others(void)
{
    return syscall(SYS_sched_getaffinity, 1, 8, NULL) >= 0;
}
static bool too_much_memory(void)
{
    return mmap(NULL, (size_t)2 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) != MAP_FAILED;
}

static const struct attempt {
    const char *name;
    attempt_fn *run;
} attempts[] = {
    {"open a file", open_passwd},
    {"open a directory", openat_root},
    {"create a file", create_file},
    {"read a link", read_link},
    {"stat a file", stat_file},
    {"remove a file", unlink_file},
    {"make a directory", make_dir},
    {"change the directory", change_dir},
    {"a TCP socket", tcp_socket},
    {"a UDP socket", udp_socket},
    {"a UNIX socket", unix_socket},
    {"a netlink socket", netlink_socket},
    {"a pair of sockets", socket_pair},
    {"run a program", run_program},
    {"fork", fork_child},
    {"trace", trace},
    {"signal the parent", signal_parent},
    {"a namespace", new_namespace},
    {"mount", mount_fs},
    {"map executable memory", map_executable},
    {"map a descriptor", map_descriptor},
    {"make memory executable", make_executable},
    {"io_uring", io_uring},
    {"bpf", bpf_call},
    {"memfd", memfd},
    {"memory of another process", process_vm},
    {"perf", perf_open},
    {"kernel keyring", add_kernel_key},
    {"one more descriptor", more_files},
    {"change the user", set_user},
    {"CPU affinity of another process", affinity_of_others},
    {"too much memory", too_much_memory},
};

static bool escapes(const struct attempt *a)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        media_sandbox_enter();
        _exit(a->run() ? 42 : 0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

/* A child that computes gets SIGPROF at its limit, not SIGSYS for setting it in the sandbox. */
static bool time_limit_ends_child(void)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        media_sandbox_enter();
        media_sandbox_limit(0.05);
        for (volatile unsigned long i = 0; i < 20000000000UL; i++)
            ;
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
}

/* Tests whether the kernel supports seccomp: a child installs a filter that allows everything. */
static void print_why_off(void)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
        const struct sock_fprog all = {1, &allow};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) != 0)
            _exit(errno);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("kernel filter: %s; libseccomp: %s\n",
           WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "killed",
#if defined(MOTE_SECCOMP)
           "built in"
#else
           "not built in"
#endif
    );
}

int main(void)
{
    const sandbox_state state = media_sandbox_here();
    const size_t n = sizeof attempts / sizeof *attempts;
    size_t escaped = 0;
    printf("sandbox: %s\n", media_sandbox_name(state));
    if (state == SANDBOX_OFF) {
        print_why_off();
        return 77;
    }
    for (size_t i = 0; i < n; i++)
        if (escapes(&attempts[i])) {
            printf("ESCAPED: %s\n", attempts[i].name);
            escaped++;
        }
    printf("%zu attempts, %zu succeeded\n", n, escaped);
    if (!time_limit_ends_child()) {
        printf("FAILED: the time limit does not end a decoder\n");
        return 1;
    }
    return escaped > 0;
}

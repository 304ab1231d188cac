/* A server with one answer: a chat (or text) completion of TOKENS tokens as server-sent events. With PACE_US 0 the whole
 * answer is one write, so that a client's reads coalesce; else each event is a write of its own, PACE_US apart, for all
 * streams on one clock. One thread, epoll. It knows no more HTTP than its clients need.
 *
 * usage: server PORT PACE_US TOKENS ROLE_CHUNK(0|1) */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAX_FDS 65536
#define IN_MAX 65536

struct piece { char *bytes; size_t length; };
/* An answer: head, events, end. */
struct answer { struct piece head, *events, end, whole; };
struct conn { char *in; size_t have; struct answer *streaming; int next; char *left; size_t left_length; };

static struct conn *conns[MAX_FDS];
static int tokens, highest;

static struct piece chunk(const char *data) {
    struct piece p;
    size_t n = strlen(data) + 8;
    p.bytes = malloc(n + 32);
    p.length = sprintf(p.bytes, "%zx\r\ndata: %s\n\n\r\n", n, data);
    return p;
}

static struct answer make(int chat, int role) {
    struct answer a;
    char data[512];
    a.head.bytes = malloc(4096);
    a.head.length = sprintf(a.head.bytes, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n");
    if (chat && role) {
        struct piece p = chunk("{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1796000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}");
        memcpy(a.head.bytes + a.head.length, p.bytes, p.length);
        a.head.length += p.length;
    }
    a.events = malloc(sizeof(struct piece) * tokens);
    for (int i = 0; i < tokens; i++) {
        const char *finish = i + 1 == tokens ? "\"length\"" : "null";
        if (chat)
            sprintf(data, "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1796000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" ko\"},\"logprobs\":null,\"finish_reason\":%s}]}", finish);
        else
            sprintf(data, "{\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1796000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" ko\",\"logprobs\":null,\"finish_reason\":%s}]}", finish);
        a.events[i] = chunk(data);
    }
    sprintf(data, "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"%s\",\"created\":1796000000,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":64,\"completion_tokens\":%d,\"total_tokens\":%d}}",
            chat ? "chat.completion.chunk" : "text_completion", tokens, tokens + 64);
    struct piece usage = chunk(data), done = chunk("[DONE]");
    a.end.bytes = malloc(usage.length + done.length + 8);
    a.end.length = sprintf(a.end.bytes, "%.*s%.*s0\r\n\r\n", (int)usage.length, usage.bytes, (int)done.length, done.bytes);
    a.whole.length = a.head.length + a.end.length;
    for (int i = 0; i < tokens; i++) a.whole.length += a.events[i].length;
    char *at = a.whole.bytes = malloc(a.whole.length);
    memcpy(at, a.head.bytes, a.head.length); at += a.head.length;
    for (int i = 0; i < tokens; i++) { memcpy(at, a.events[i].bytes, a.events[i].length); at += a.events[i].length; }
    memcpy(at, a.end.bytes, a.end.length);
    return a;
}

static void drop(int fd) {
    free(conns[fd]->in); free(conns[fd]); conns[fd] = NULL; close(fd);
}

/* Writes; what the kernel does not take waits for the socket to be writable. */
static void put(int fd, const char *bytes, size_t length) {
    struct conn *c = conns[fd];
    if (!c->left_length) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n == (ssize_t)length) return;
        if (n < 0 && errno != EAGAIN) return;
        if (n > 0) { bytes += n; length -= n; }
    }
    char *more = malloc(c->left_length + length);
    memcpy(more, c->left, c->left_length);
    memcpy(more + c->left_length, bytes, length);
    free(c->left);
    c->left = more; c->left_length += length;
}

static void plain(int fd, const char *status, const char *body) {
    char out[1024];
    int n = sprintf(out, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", status, strlen(body), body);
    put(fd, out, n);
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: server PORT PACE_US TOKENS ROLE_CHUNK\n"), 2;
    int port = atoi(argv[1]); long pace = atol(argv[2]); tokens = atoi(argv[3]);
    signal(SIGPIPE, SIG_IGN);
    struct answer chat = make(1, atoi(argv[4])), text = make(0, 0);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ep = epoll_create1(0), timer = -1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&addr, sizeof addr) || listen(listener, 4096)) return perror("bind"), 1;
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
    if (pace) {
        timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        struct itimerspec t = {{pace / 1000000, pace % 1000000 * 1000}, {pace / 1000000, pace % 1000000 * 1000}};
        timerfd_settime(timer, 0, &t, NULL);
        e.data.fd = timer;
        epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e);
    }
    struct epoll_event ready[512];
    for (;;) {
        int n = epoll_wait(ep, ready, 512, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                for (int c; (c = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
                    if (c >= MAX_FDS) { close(c); continue; }
                    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    conns[c] = calloc(1, sizeof(struct conn));
                    conns[c]->in = malloc(IN_MAX);
                    if (c > highest) highest = c;
                    struct epoll_event ce = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = c};
                    epoll_ctl(ep, EPOLL_CTL_ADD, c, &ce);
                }
                continue;
            }
            if (fd == timer) {
                uint64_t ticks;
                if (read(timer, &ticks, sizeof ticks) < 0) continue;
                for (int c = 0; c <= highest; c++) {
                    if (!conns[c] || !conns[c]->streaming) continue;
                    struct answer *a = conns[c]->streaming;
                    struct piece *p = &a->events[conns[c]->next++];
                    put(c, p->bytes, p->length);
                    if (conns[c]->next == tokens) { put(c, a->end.bytes, a->end.length); conns[c]->streaming = NULL; }
                }
                continue;
            }
            struct conn *c = conns[fd];
            if (!c) continue;
            if (ready[i].events & EPOLLOUT && c->left_length) {
                ssize_t w = send(fd, c->left, c->left_length, MSG_NOSIGNAL);
                if (w > 0) { memmove(c->left, c->left + w, c->left_length - w); c->left_length -= w; }
            }
            if (!(ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
            ssize_t got;
            while ((got = recv(fd, c->in + c->have, IN_MAX - 1 - c->have, 0)) > 0) {
                c->have += got;
                for (;;) {
                    c->in[c->have] = 0;
                    char *end = strstr(c->in, "\r\n\r\n");
                    if (!end) break;
                    char *length = strcasestr(c->in, "\r\ncontent-length:");
                    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
                    size_t whole = end + 4 - c->in + body;
                    if (whole >= IN_MAX - 1) { got = 0; break; }
                    if (c->have < whole) break;
                    char *line = memchr(c->in, '\r', c->have);
                    *line = 0;
                    if (strncmp(c->in, "POST ", 5) == 0 && strstr(c->in, "completions")) {
                        struct answer *a = strstr(c->in, "chat") ? &chat : &text;
                        if (!pace) put(fd, a->whole.bytes, a->whole.length);
                        else { put(fd, a->head.bytes, a->head.length); c->streaming = a; c->next = 0; }
                    } else if (strstr(c->in, "/models"))
                        plain(fd, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"created\":1,\"owned_by\":\"regression\"}]}");
                    else if (strstr(c->in, "/health") || strstr(c->in, "/ping"))
                        plain(fd, "200 OK", "{}");
                    else
                        plain(fd, "404 Not Found", "{\"detail\":\"Not Found\"}");
                    memmove(c->in, c->in + whole, c->have - whole);
                    c->have -= whole;
                }
                if (got == 0) break;
            }
            if (got == 0 || (got < 0 && errno != EAGAIN)) drop(fd);
        }
    }
}

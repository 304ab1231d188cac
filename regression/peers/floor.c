/* The physical floor: sends the same requests on CONNECTIONS connections and reads the same bytes, with epoll and recv, and does
 * nothing with them but look for the end of an answer by its length. Prints answers, bytes, and CPU seconds.
 *
 * usage: floor PORT CONNECTIONS REQUESTS BYTES_OF_AN_ANSWER */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[1 << 18], request[2048];
static long got[65536];

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: floor PORT CONNECTIONS REQUESTS BYTES\n"), 2;
    int port = atoi(argv[1]), connections = atoi(argv[2]);
    long requests = atol(argv[3]), length = atol(argv[4]), sent = 0, done = 0, bytes = 0, reads = 0;
    char body[1024];
    int n = sprintf(body, "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"%0400d\"}]}", 7);
    int size = sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", n, body);
    int ep = epoll_create1(0), one = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&addr, sizeof addr)) return perror("connect"), 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        if (sent < requests) { if (send(fd, request, size, 0) != size) return 1; sent++; }
    }
    struct epoll_event ready[512];
    while (done < requests) {
        int k = epoll_wait(ep, ready, 512, -1);
        for (int i = 0; i < k; i++) {
            int fd = ready[i].data.fd;
            ssize_t r = recv(fd, buffer, sizeof buffer, 0);
            if (r <= 0) return fprintf(stderr, "a connection ended\n"), 1;
            bytes += r; reads++; got[fd] += r;
            if (got[fd] >= length) {
                got[fd] -= length; done++;
                if (sent < requests) { if (send(fd, request, size, 0) != size) return 1; sent++; }
            }
        }
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("{\"answers\":%ld,\"bytes\":%ld,\"reads\":%ld,\"cpu_s\":%f}\n", done, bytes, reads,
           u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
    return 0;
}

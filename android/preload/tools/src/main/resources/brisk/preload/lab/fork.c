// SPDX-License-Identifier: Apache-2.0
/*
 * fork(2) for a Java machine. Of the parent's threads its child has only the one that forked.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jni.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sends this process SIGALRM after the limit, whatever it waits for then, and SIGKILL when the thread that forked ends. */
static int bound(pid_t parent, int limit_ms)
{
	struct itimerval limit = { .it_value = { limit_ms / 1000, limit_ms % 1000 * 1000 } };
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	if (signal(SIGALRM, SIG_DFL) == SIG_ERR || sigprocmask(SIG_UNBLOCK, &alarm, NULL) == -1)
		return -1;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || setitimer(ITIMER_REAL, &limit, NULL) == -1)
		return -1;
	/* A parent that has ended before sends no signal. */
	return getppid() == parent ? 0 : -1;
}

/* Opens a file that is only read once more, below the same number. */
static int reopen(int number)
{
	int mode = fcntl(number, F_GETFL);
	int flags = fcntl(number, F_GETFD);
	char path[32];
	struct stat file;
	int own, result;

	if (mode == -1 || flags == -1 || (mode & O_ACCMODE) != O_RDONLY)
		return 0;
	if (fstat(number, &file) == -1 || !S_ISREG(file.st_mode))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", number);
	own = open(path, O_RDONLY | O_CLOEXEC);
	if (own == -1)
		return -1;
	result = dup3(own, number, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	close(own);
	return result;
}

/*
 * Both processes read jars by lseek(2) and read(2), and a child inherits its parent's positions: each would move those of the
 * other. Dalvik maps its code instead.
 */
static int own_positions(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	int result = 0;

	if (!folder)
		return -1;
	while (result != -1 && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			result = reopen(atoi(entry->d_name));
	closedir(folder);
	return result;
}

static jint fault(JNIEnv *env)
{
	const char *message = strerror(errno);
	jclass type = (*env)->FindClass(env, "java/io/IOException");

	if (type)
		(*env)->ThrowNew(env, type, message);
	return -1;
}

/* The child's PID, or 0 in the child. */
JNIEXPORT jint JNICALL Java_brisk_preload_lab_ForkedChild_fork(JNIEnv *env, jclass type, jint limit_ms)
{
	pid_t parent = getpid();
	pid_t child = fork();

	(void)type;
	if (child == 0 && (bound(parent, limit_ms) == -1 || own_positions() == -1)) {
		perror("cannot prepare the child");
		_exit(EXIT_FAILURE);
	}
	return child == -1 ? fault(env) : child;
}

/* Waits for a child's end: its exit code, or the negative number of the signal that ended it. */
JNIEXPORT jint JNICALL Java_brisk_preload_lab_ForkedChild_await(JNIEnv *env, jclass type, jint child)
{
	int status;

	(void)type;
	while (waitpid(child, &status, 0) == -1)
		if (errno != EINTR)
			return fault(env);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Ends this process without the handlers of its exit, some of which wait for threads that a child lacks. */
JNIEXPORT void JNICALL Java_brisk_preload_lab_ForkedChild_end(JNIEnv *env, jclass type, jint code)
{
	(void)env;
	(void)type;
	_exit(code);
}

/* A device's queue: work that goes on while the caller does something else, in the order given. */
#include <stdlib.h>

#include "plugin.h"

#define QUEUE_STACK ((size_t)1 << 20) /* kernels use up to 256 KiB of it */
#define QUEUE_LENGTH 32               /* a caller who is further ahead waits */

void pjrt_queue_start(pjrt_queue *queue) {
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->changed, NULL);
  queue->last = &queue->first;
}

static void *queue_main(void *argument) {
  pjrt_queue *self = argument;
  pthread_mutex_lock(&self->lock);
  for (;;) {
    while (!self->first && !self->is_ending) pthread_cond_wait(&self->changed, &self->lock);
    pjrt_job *job = self->first;
    if (!job) break;
    self->first = job->next;
    if (!self->first) self->last = &self->first;
    pthread_mutex_unlock(&self->lock);
    job->run(job);
    pthread_mutex_lock(&self->lock);
    --self->count;
    pthread_cond_broadcast(&self->changed);
  }
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

static bool queue_begin(pjrt_queue *self) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return false;
  bool has_begun = !pthread_attr_setstacksize(&attributes, QUEUE_STACK) &&
                   !pthread_create(&self->thread, &attributes, queue_main, self);
  pthread_attr_destroy(&attributes);
  return has_begun;
}

bool pjrt_queue_add(pjrt_queue *queue, pjrt_job *job) {
  job->next = NULL;
  pthread_mutex_lock(&queue->lock);
  if (!queue->has_thread) queue->has_thread = queue_begin(queue);
  bool is_taken = queue->has_thread;
  /* What a job tells its listeners may add another one. */
  bool is_own = is_taken && pthread_equal(pthread_self(), queue->thread);
  while (is_taken && !is_own && queue->count >= QUEUE_LENGTH)
    pthread_cond_wait(&queue->changed, &queue->lock);
  if (is_taken) {
    *queue->last = job;
    queue->last = &job->next;
    ++queue->count;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->lock);
  return is_taken;
}

void pjrt_queue_stop(pjrt_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  queue->is_ending = true;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  if (queue->has_thread) pthread_join(queue->thread, NULL);
  pthread_cond_destroy(&queue->changed);
  pthread_mutex_destroy(&queue->lock);
}

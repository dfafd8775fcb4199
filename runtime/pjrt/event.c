/* Events: what is told once something is over. Nothing that an event tells of can fail. */
#include <stdlib.h>

#include "plugin.h"

typedef struct event_listener {
  struct event_listener *next;
  pjrt_on_ready callback;
  void *user;
} event_listener;

struct pjrt_event {
  pthread_mutex_t lock; /* for what follows */
  pthread_cond_t changed;
  int references;
  bool is_ready;
  event_listener *listeners;
};

pjrt_event *pjrt_event_make(void) {
  pjrt_event *event = calloc(1, sizeof *event);
  if (!event) return NULL;
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  event->references = 2;
  return event;
}

pjrt_event *pjrt_event_ready(void) {
  pjrt_event *event = pjrt_event_make();
  if (event) pjrt_event_set(event);
  return event;
}

/* Give a reference back; the lock is held, and let go. */
static void event_release(pjrt_event *event) {
  int left = --event->references;
  pthread_mutex_unlock(&event->lock);
  if (left) return;
  pthread_cond_destroy(&event->changed);
  pthread_mutex_destroy(&event->lock);
  free(event);
}

void pjrt_event_set(pjrt_event *event) {
  pthread_mutex_lock(&event->lock);
  event->is_ready = true;
  event_listener *listener = event->listeners;
  event->listeners = NULL;
  pthread_cond_broadcast(&event->changed);
  event_release(event);
  while (listener) {
    event_listener *next = listener->next;
    listener->callback(NULL, listener->user);
    free(listener);
    listener = next;
  }
}

pjrt_error *pjrt_event_destroy(event_destroy_args *args) {
  if (!args->event) return NULL;
  pthread_mutex_lock(&args->event->lock);
  event_release(args->event);
  return NULL;
}

pjrt_error *pjrt_event_is_ready(event_is_ready_args *args) {
  pthread_mutex_lock(&args->event->lock);
  args->is_ready = args->event->is_ready;
  pthread_mutex_unlock(&args->event->lock);
  return NULL;
}

pjrt_error *pjrt_event_error(event_error_args *args) {
  (void)args;
  return NULL;
}

pjrt_error *pjrt_event_await(event_await_args *args) {
  pjrt_event *event = args->event;
  pthread_mutex_lock(&event->lock);
  while (!event->is_ready) pthread_cond_wait(&event->changed, &event->lock);
  pthread_mutex_unlock(&event->lock);
  return NULL;
}

pjrt_error *pjrt_event_on_ready(event_on_ready_args *args) {
  pjrt_event *event = args->event;
  pthread_mutex_lock(&event->lock);
  bool is_ready = event->is_ready;
  event_listener *listener = is_ready ? NULL : malloc(sizeof *listener);
  if (listener) {
    *listener = (event_listener){event->listeners, args->callback, args->user};
    event->listeners = listener;
  }
  pthread_mutex_unlock(&event->lock);
  if (is_ready) args->callback(NULL, args->user);
  return is_ready || listener ? NULL : pjrt_out_of_memory();
}

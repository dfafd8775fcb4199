/* Events: what is told once something is over, and what failed of it. */
#include <stdlib.h>

#include "plugin.h"

typedef struct event_listener {
  struct event_listener *next;
  pjrt_on_ready callback;
  void *user;
} event_listener;

struct pjrt_event {
  pthread_mutex_t lock; /* for what follows, but for `references` */
  pthread_cond_t changed;
  atomic_size_t references;
  atomic_bool is_ready; /* then `error` stays as it is */
  pjrt_error *error;
  event_listener *listeners;
};

/* One for all that is over from the start; never freed. */
static pjrt_event event_over = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER,
                                .references = 1,
                                .is_ready = true};

pjrt_event *pjrt_event_make(void) {
  pjrt_event *event = calloc(1, sizeof *event);
  if (!event) return NULL;
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  atomic_init(&event->references, 2);
  return event;
}

pjrt_event *pjrt_event_ready(void) { return &event_over; }

pjrt_event *pjrt_event_retain(pjrt_event *event) {
  if (event != &event_over) atomic_fetch_add(&event->references, 1);
  return event;
}

void pjrt_event_release(pjrt_event *event) {
  if (!event || event == &event_over || atomic_fetch_sub(&event->references, 1) != 1) return;
  pthread_cond_destroy(&event->changed);
  pthread_mutex_destroy(&event->lock);
  pjrt_error_destroy(&(error_destroy_args){.error = event->error});
  free(event);
}

void pjrt_event_set(pjrt_event *event, pjrt_error *error) {
  pthread_mutex_lock(&event->lock);
  event->error = error;
  event_listener *listener = event->listeners;
  event->listeners = NULL;
  atomic_store(&event->is_ready, true);
  pthread_cond_broadcast(&event->changed);
  pthread_mutex_unlock(&event->lock);
  while (listener) {
    event_listener *next = listener->next;
    listener->callback(pjrt_error_copy(event->error), listener->user);
    free(listener);
    listener = next;
  }
  pjrt_event_release(event);
}

bool pjrt_event_is_over(pjrt_event *event) { return atomic_load(&event->is_ready); }

pjrt_error *pjrt_event_wait(pjrt_event *event) {
  if (!pjrt_event_is_over(event)) {
    pthread_mutex_lock(&event->lock);
    while (!pjrt_event_is_over(event)) pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
  }
  return pjrt_error_copy(event->error);
}

pjrt_error *pjrt_event_tell(pjrt_event *event, pjrt_on_ready callback, void *user) {
  event_listener *listener = NULL;
  if (!pjrt_event_is_over(event)) {
    listener = malloc(sizeof *listener);
    if (!listener) return pjrt_out_of_memory();
    pthread_mutex_lock(&event->lock);
    bool is_over = pjrt_event_is_over(event);
    if (!is_over) {
      *listener = (event_listener){event->listeners, callback, user};
      event->listeners = listener;
    }
    pthread_mutex_unlock(&event->lock);
    if (!is_over) return NULL;
  }
  free(listener);
  callback(pjrt_error_copy(event->error), user);
  return NULL;
}

/* --- PJRT's functions ------------------------------------------------------------------------- */

pjrt_error *pjrt_event_destroy(event_destroy_args *args) {
  pjrt_event_release(args->event);
  return NULL;
}

pjrt_error *pjrt_event_is_ready(event_is_ready_args *args) {
  args->is_ready = pjrt_event_is_over(args->event);
  return NULL;
}

pjrt_error *pjrt_event_error(event_error_args *args) {
  return pjrt_event_is_over(args->event) ? pjrt_error_copy(args->event->error) : NULL;
}

pjrt_error *pjrt_event_await(event_await_args *args) { return pjrt_event_wait(args->event); }

pjrt_error *pjrt_event_on_ready(event_on_ready_args *args) {
  return pjrt_event_tell(args->event, args->callback, args->user);
}

// All metrics, served at `/metrics`.
import { booksMetrics } from './metrics/books.ts'
import { databaseMetrics } from './metrics/database.ts'
import { eventsMetrics } from './metrics/events.ts'
import { jobsMetrics } from './metrics/jobs.ts'
import { notificationsMetrics } from './metrics/notifications.ts'
import { poolsMetrics } from './metrics/pools.ts'
import { providersMetrics } from './metrics/providers.ts'
import { usePrometheusFormat } from './metrics/registry.ts'
import { requestsMetrics } from './metrics/requests.ts'

export {
  asPrometheusFormat,
  contentTypeOf,
  END_OF_OPEN_METRICS,
  OPEN_METRICS,
  registry,
  useOpenMetrics,
  wantsOpenMetrics,
} from './metrics/registry.ts'

export const metrics = {
  ...requestsMetrics,
  ...jobsMetrics,
  ...providersMetrics,
  ...databaseMetrics,
  ...poolsMetrics,
  ...eventsMetrics,
  ...notificationsMetrics,
  ...booksMetrics,
}

// The metric is absent until this process has read the result of an audit: 0 would mean that an audit has just ended.
metrics.auditAge.remove()

// All metrics are registered now: see the registry.
usePrometheusFormat()

/** For load balancers. They may share an address with callers, so this path has no rate limit. */
export const HEALTH_PATH = '/healthz'

// Skeletons: placeholders for content that is loading.

/** A grey bar with the width of the content, in px or percent. Screen readers skip it. */
export function Skeleton({ width = '60%', height = 10 }: { width?: number | string; height?: number }) {
  return <span className="skeleton" aria-hidden style={{ width, height }} />
}

/** The skeleton of a page: a heading and lines. */
export function PageSkeleton() {
  return (
    <div role="status" aria-busy="true" aria-label="Loading">
      <div className="page-header">
        <div>
          <Skeleton width={180} height={18} />
          <p>
            <Skeleton width={320} />
          </p>
        </div>
      </div>
      <div className="stack">
        {['92%', '78%', '85%', '64%', '81%'].map((width) => (
          <Skeleton key={width} width={width} height={12} />
        ))}
      </div>
    </div>
  )
}

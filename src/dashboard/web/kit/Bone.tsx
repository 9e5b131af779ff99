// The place of something that is still on its way.

/** A grey line as wide as what will be there, in px or percent. Keeps the layout; is not heard. */
export function Skeleton({ width = '60%', height = 10 }: { width?: number | string; height?: number }) {
  return <span className="bone" aria-hidden style={{ width, height }} />
}

/** A whole page that is on its way: a heading, and lines. */
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

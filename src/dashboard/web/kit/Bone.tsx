// The place of something that is still on its way.

/** A grey line as wide as what will be there, in px or percent. Keeps the layout; is not heard. */
export function Bone({ width = '60%', height = 10 }: { width?: number | string; height?: number }) {
  return <span className="bone" aria-hidden style={{ width, height }} />
}

/** A whole page that is on its way: a heading, and lines. */
export function PageBones() {
  return (
    <div role="status" aria-busy="true" aria-label="Loading">
      <div className="page-header">
        <div>
          <Bone width={180} height={18} />
          <p>
            <Bone width={320} />
          </p>
        </div>
      </div>
      <div className="stack">
        {['92%', '78%', '85%', '64%', '81%'].map((width) => (
          <Bone key={width} width={width} height={12} />
        ))}
      </div>
    </div>
  )
}

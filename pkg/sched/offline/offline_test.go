package offline

import (
	"context"
	"testing"
	"time"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

func TestBuild(t *testing.T) {
	t0 := time.Now()
	e, err := New(context.Background(), &kube.Snapshot{}, config.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(t0), e.Filters())
	e.Close()
}
